// The changelog is written by hand, for users. A release names its unreleased section.

const heading = '## Unreleased\n';

/** Returns the changelog in which the unreleased changes are those of a version. @throws Error if there are none */
export function releaseChangelog(text, version, date) {
  const at = text.indexOf(heading);
  const rest = at < 0 ? '' : text.slice(at + heading.length);
  if (/^\s*(## |$)/.test(rest)) throw new Error('CHANGELOG.md has no changes below "## Unreleased"');
  return `${text.slice(0, at)}${heading}\n## ${version} - ${date}\n${rest}`;
}

/** Returns the section of a version without its heading. @throws Error if there is none */
export function notesOf(text, version) {
  const sections = text.split(/^## /m).slice(1);
  const found = sections.find((section) => section.startsWith(`${version} `));
  if (found === undefined) throw new Error(`CHANGELOG.md has no section "## ${version}"`);
  return `${found.slice(found.indexOf('\n')).trim()}\n`;
}
