"""What tests of several folders share: agents, logs made up for tests, PostgreSQL, servers, terminals."""
