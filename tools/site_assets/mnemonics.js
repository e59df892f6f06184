// The table of isa/mnemonics: rows whose text has every word, or every part of a mnemonic, that is typed.  `#q=ld.global` fills it in.
document.addEventListener("DOMContentLoaded", () => {
  const input = document.getElementById("mnemonic");
  if (!input) return;
  const rows = [...document.querySelectorAll("article tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = document.getElementById("mnemonic-count");
  const show = () => {
    const parts = input.value.toLowerCase().split(/[\s.]+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !parts.every((part) => texts[i].includes(part));
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length} forms`;
  };
  const asked = /^#q=(.*)/.exec(location.hash);
  if (asked) input.value = decodeURIComponent(asked[1]);
  input.addEventListener("input", show);
  show();
});
