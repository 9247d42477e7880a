/* Everything that a page of somebody else can try against a server that its visitor is signed in to; what came of each. */
async ({ target, id, script, style }) => {
  const outcomes = {};
  const api = (path) => target + '/api/sessions' + path;
  const attempt = async (name, act) => {
    try { outcomes[name] = await act(); } catch (error) { outcomes[name] = 'refused: ' + error.name; }
  };
  const read = async (response) => {
    let text = '';
    try { text = await response.text(); } catch {}
    return response.type === 'opaque' || text === '' ? 'nothing' : 'READ ' + response.status + ' ' + text.slice(0, 80);
  };
  const within = (act) => Promise.race([act(), new Promise((done) => setTimeout(() => done('nothing'), 1500))]);
  const body = JSON.stringify({content: 'attack'});
  const post = (path, options) => fetch(api(path), {method: 'POST', credentials: 'include', body, ...options}).then(read);
  const element = (name, attributes) => within(() => new Promise((done) => {
    const node = Object.assign(document.createElement(name), attributes);
    node.onload = () => done(name === 'iframe' ? framed(node) : 'LOADED');
    node.onerror = () => done('nothing');
    document.body.append(node);
  }));
  const framed = (node) => {
    try { return node.contentDocument?.body?.textContent ? 'READ ' + node.contentDocument.body.textContent : 'nothing'; }
    catch { return 'nothing'; }
  };
  const form = (name, enctype, fields) => {
    const action = api('/' + id + name);
    const node = Object.assign(document.createElement('form'), { method: 'POST', action, enctype, target: 'sink' });
    for (const [key, value] of Object.entries(fields)) {
      node.append(Object.assign(document.createElement('input'), { name: key, value }));
    }
    document.body.append(node);
    node.submit();
  };
  document.body.append(Object.assign(document.createElement('iframe'), {name: 'sink'}));

  await Promise.all([
    attempt('get', () => fetch(api(''), {credentials: 'include'}).then(read)),
    attempt('get without cors', () => fetch(api(''), {mode: 'no-cors', credentials: 'include'}).then(read)),
    attempt('post json', () => post('/' + id + '/messages', {headers: {'Content-Type': 'application/json'}})),
    attempt('post plain', () => post('/' + id + '/messages', {headers: {'Content-Type': 'text/plain'}})),
    attempt('post without cors', () => post('/' + id + '/messages', {mode: 'no-cors', headers: {'Content-Type': 'text/plain'}})),
    attempt('post form', () => post('/' + id + '/messages', {mode: 'no-cors', headers: {'Content-Type': 'application/x-www-form-urlencoded'}})),
    attempt('post nothing', () => post('/' + id + '/end', {mode: 'no-cors', body: null})),
    attempt('post a blob', () => post('/' + id + '/messages', {mode: 'no-cors', body: new Blob([body], {type: ''})})),
    attempt('create', () => post('', {mode: 'no-cors', body: null})),
    attempt('delete', () => fetch(api('/' + id), {method: 'DELETE', credentials: 'include'}).then(read)),
    attempt('patch', () => fetch(api('/' + id), {method: 'PATCH', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{"title":"attack"}'}).then(read)),
    attempt('beacon', () => { navigator.sendBeacon(api('/' + id + '/end')); navigator.sendBeacon(api('/' + id + '/messages'), new Blob([body], {type: 'text/plain'})); return 'nothing'; }),
    attempt('login link', () => fetch(target + '/api/login', {method: 'POST', credentials: 'include'}).then(read)),
    attempt('image', () => element('img', {src: target + '/favicon.ico'})),
    attempt('image of the api', () => element('img', {src: api('/' + id + '/export?format=html')})),
    attempt('script of the api', () => element('script', {src: api('')})),
    attempt('script of the page', () => element('script', {src: target + script, type: 'module'})),
    attempt('style', () => element('link', {rel: 'stylesheet', href: target + style})),
    attempt('iframe', () => element('iframe', {src: target + '/'})),
    attempt('iframe of the api', () => element('iframe', {src: api('')})),
    attempt('object', () => element('object', {data: api('')})),
    attempt('event source', () => within(() => new Promise((done) => {
      const source = new EventSource(api('/' + id + '/stream'), {withCredentials: true});
      source.onopen = source.onmessage = () => done('OPENED');
      source.onerror = () => { source.close(); done('nothing'); };
    }))),
    attempt('web socket', () => within(() => new Promise((done) => {
      const socket = new WebSocket(target.replace('http', 'ws') + '/api/sessions/' + id + '/stream');
      socket.onopen = () => done('OPENED');
      socket.onerror = () => done('nothing');
    }))),
    attempt('window', () => within(() => new Promise((done) => {
      const opened = window.open(target + '/');
      addEventListener('message', (event) => event.origin === target && done('ANSWERED ' + event.data));
      const tell = setInterval(() => { try { opened?.postMessage({content: 'attack', type: 'login'}, '*'); } catch {} }, 100);
      setTimeout(() => {
        clearInterval(tell);
        try { done(opened?.document?.body ? 'READ the window' : 'nothing'); } catch { done('nothing'); }
      }, 1200);
    }))),
  ]);
  form('/messages', 'text/plain', {'{"content":"attack","x":"': '"}'});
  form('/messages', 'application/x-www-form-urlencoded', {content: 'attack'});
  form('/end', 'multipart/form-data', {});
  form('/clear', 'application/x-www-form-urlencoded', {});
  await new Promise((done) => setTimeout(done, 400));
  return outcomes;
}
