/* Holds a stream back before the event that ends a reply, until `window.goOn()`: the draft stays, however slow it is. */
let goOn;
const may = new Promise((resolve) => (goOn = resolve));
window.goOn = goOn;
const real = window.fetch;
window.fetch = async (address, options) => {
  const response = await real(address, options);
  if (!String(address).includes('/stream')) return response;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const encoder = new TextEncoder();
  let text = '';
  const body = new ReadableStream({async pull(controller) {
    const {value, done} = await reader.read();
    if (done) return controller.close();
    const whole = (text + value).split('\n\n');
    text = whole.pop();
    for (const frame of whole) {
      if (/^event: AssistantReplied$/m.test(frame)) await may;
      controller.enqueue(encoder.encode(frame + '\n\n'));
    }
  }, cancel() { reader.cancel(); }});
  return new Response(body, {status: response.status, headers: response.headers});
};
