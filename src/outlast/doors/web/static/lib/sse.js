/** Parses server-sent events from a response body, wherever the network splits it. */

/** Yields `{id, event, data}` for each frame, and null for each comment: a sign of life. */
export async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let frame = { id: null, event: "message", data: [] };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an incomplete frame is dropped
      rest += value;
      // A final carriage return may be half of a line end.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (frame.data.length) yield { id: frame.id, event: frame.event, data: frame.data.join("\n") };
          frame = { id: null, event: "message", data: [] };
        } else if (line.startsWith(":")) {
          yield null;
        } else {
          field(frame, line);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function field(frame, line) {
  const at = line.indexOf(":");
  const name = at < 0 ? line : line.slice(0, at);
  const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
  if (name === "data") frame.data.push(value);
  else if (name === "event") frame.event = value;
  else if (name === "id" && !value.includes("\0")) frame.id = value;
}
