/* Texts that are hard to read: less contrast to what is behind them than 4.5 to 1 (3 to 1 for large ones). */
() => {
  const read = (colour) => {
    const [a, b, c, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return colour.startsWith('color(srgb') ? [a * 255, b * 255, c * 255, alpha] : [a, b, c, alpha];
  };
  const over = (above, below) => [0, 1, 2].map((n) => above[n] * above[3] + below[n] * (1 - above[3])).concat(1);
  const up = (node) => (node ? [node, ...up(node.parentElement)] : []);
  const behind = (node) => up(node).reverse().reduce(
    (colour, one) => over(read(getComputedStyle(one).backgroundColor), colour), [255, 255, 255, 1]);
  const light = (colour) => {
    const [r, g, b] = colour.map((n) => (n / 255 <= 0.03928 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (node) => {
    const { color, fill } = getComputedStyle(node);
    const ink = read(node.namespaceURI.endsWith('svg') ? fill : color);
    ink[3] *= up(node).reduce((all, one) => all * Number(getComputedStyle(one).opacity), 1);
    const paper = behind(node);
    const [more, less] = [light(over(ink, paper)), light(paper)].sort((one, other) => other - one);
    return (more + 0.05) / (less + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const isShown = node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!walker.currentNode.data.trim() || !isShown || node.closest(':disabled, option, title, .unseen')) continue;
    const got = contrast(node);
    if (got < (parseFloat(getComputedStyle(node).fontSize) >= 24 ? 3 : 4.5))
      found.add(`${got.toFixed(2)} ${node.tagName} ${node.className?.baseVal ?? node.className}`);
  }
  return [...found];
}
