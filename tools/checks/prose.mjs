// Lints the prose of Markdown pages: American spelling, names of products, repeated and filler words, one title, heading levels, languages of code blocks.
//
// The rules are Oarlock's own because published term lists contradict Kubernetes' usage: textlint-rule-terminology changes "run time" to "runtime",
// "README" to "readme" and "id" to "ID".
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** @typedef {{ file: string, line: number, found: string, instead: string }} Finding */

/** Words and their replacements. */
export const terms = [
  [/\bbehaviou(rs?)\b/gi, 'behavior'],
  [/\b(neighbou|colou|favou|honou|labou)r\w*\b/gi, 'the American spelling: -or'],
  [/\b(label|cancel|travel|model|signal)l(ed|ing)\b/gi, 'the American spelling: one l'],
  [/\b(organ|initial|serial|recogn|synchron|optim|normal|custom|author|util|minim|maxim|categor|summar)is(e|es|ed|ing|ation)\b/gi, '-ize'],
  [/\b(analyse[ds]?|centre[ds]?|catalogue[ds]?|licence[ds]?|whilst|grey|towards)\b/gi, 'the American spelling'],
  [/(?<![-.:/=@])\bkubernetes\b(?![-.:/=])/g, 'Kubernetes'],
  [/\b[Kk]8s\b(?![.:/])/g, 'Kubernetes'],
  [/\b(javascript|Javascript)\b/g, 'JavaScript'],
  [/\b(typescript|Typescript)\b/g, 'TypeScript'],
  [/\b(github|Github)\b(?!\.)/g, 'GitHub'],
  [/\b(nodejs|NodeJS|NodeJs|Node\.JS|node\.js)\b/g, 'Node.js'],
  [/\b(Etcd|ETCD)\b/g, 'etcd'],
  [/\b(ContainerD|containerD)\b/g, 'containerd'],
  [/\b(api server|API-server|Api server)\b/g, 'API server'],
  [/\b(e\.g\.|i\.e\.)/g, '"for example" or "that is"'],
  [/\b(simply|obviously|of course|please|very easy|just run)\b/gi, 'nothing: delete the filler'],
  [/\b(we|our)\b/gi, 'the subject: Oarlock, the API server, the plugin'],
  [/\b(\w+) \1\b/gi, 'the word once'],
];

/** Pairs of equal words that are correct. */
const allowedRepetitions = new Set(['that that', 'had had']);

/** Replaces inline code, link targets, comments and URLs by blanks, so that columns stay. */
const proseOf = (line) =>
  line
    .replace(/`[^`]*`/g, (code) => '\u0000'.repeat(code.length))
    .replace(/\]\([^)]*\)/g, (target) => '\u0000'.repeat(target.length))
    .replace(/<!--.*?-->/g, '')
    .replace(/https?:\S+/g, '');

/** Returns the findings of one page. @returns {Finding[]} */
export function checkProse(file, text) {
  const findings = [];
  let fence;
  let level = 0;
  let titles = 0;
  for (const [index, line] of text.split('\n').entries()) {
    const report = (found, instead) => findings.push({ file, line: index + 1, found, instead });
    const [, marker, language = ''] = /^\s*(```|~~~)\s*(\S*)/.exec(line) ?? [];
    if (marker !== undefined) {
      if (fence === undefined && language === '')
        report('a code block without a language', 'the language after the marker: `text` if there is none');
      fence = fence === undefined ? marker : undefined;
      continue;
    }
    if (fence !== undefined) continue;
    const [, hashes] = /^(#+) /.exec(line) ?? [];
    if (hashes !== undefined) {
      if (hashes.length === 1) titles += 1;
      if (hashes.length === 1 && titles > 1) report(line, 'one title per page');
      if (level > 0 && hashes.length > level + 1) report(line, 'no skipped heading level');
      level = hashes.length;
    }
    for (const [pattern, instead] of terms)
      for (const [found] of proseOf(line).matchAll(pattern)) if (!allowedRepetitions.has(found.toLowerCase())) report(found, instead);
  }
  if (titles === 0) findings.push({ file, line: 1, found: 'a page without a title', instead: 'a title: `# ...`' });
  return findings;
}

/** Pages that are not linted yet, and templates without a title. */
const excluded = [/^plugins\//, /^e2e\//, /^packages\/apiserver\//, /(^|\/)templates\//, /^\.github\//];
const isLinted = (file) => file.endsWith('.md') && !excluded.some((pattern) => pattern.test(file));

/** Returns the findings of the given tracked files. */
export function checkPages(root, files) {
  return files.filter(isLinted).flatMap((file) => checkProse(file, readFileSync(join(root, file), 'utf8')));
}
