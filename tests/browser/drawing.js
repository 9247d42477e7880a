/* Every text through the code that draws questions, banners, code, differences and short words; how many there were. */
async ([texts, app]) => {
  const load = (name) => import(new URL(name, app).href);
  const [{Questions}, {toast, speak}, {Banner}, {markdown}, {codeBlock}, {diffView}, {panel}] = await Promise.all(
    ['session/questions.js', 'widgets/toast.js', 'session/banner.js', 'text/markdown.js', 'text/code_block.js',
      'text/diff.js', 'widgets/dialog.js'].map(load));
  const summary = (text) => ({title: text, activity: 'waiting', pending_user_message: text, state: 'active'});
  let drawn = 0;
  for (const text of texts) {
    for (const name of [text, 'bash', 'ask_user']) {
      const given = { [text]: text, command: text, question: text, choices: [text] };
      const diff = name === text ? text : null;
      const question = { approval_id: drawn, name, arguments: given, reason: text, scope: text, diff };
      const questions = new Questions({questions: [question]}, {});
      questions.show();
      document.body.append(questions.node);
    }
    const detail = { trouble: text, interrupted: text };
    const banner = new Banner({ summary: summary(text), detail, connection: 'live' }, {});
    banner.show();
    document.body.append(banner.node, markdown(text), codeBlock(text, text), diffView(text));
    toast(text, 'bad');
    speak(text);
    document.title = text;
    panel(text, text);
    document.querySelector('dialog').close();
    drawn += 1;
  }
  await new Promise((resolve) => setTimeout(resolve, 600));
  return drawn;
}
