/* Scroll through the whole transcript, unfold everything on the way; how many rows were seen. */
async () => {
  const box = document.querySelector('.transcript'), seen = new Set();
  const rest = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  for (let steps = 0; steps < 3000; steps++) {
    for (const line of box.querySelectorAll('.fold-line[aria-expanded=false]')) line.click();
    for (const row of box.querySelectorAll('.row')) seen.add(row.dataset.seq);
    if (box.scrollTop === 0 && !box.querySelector('.start .spinner')) break;
    box.scrollTop = Math.max(0, box.scrollTop - 900);
    await rest();
  }
  return seen.size;
}
