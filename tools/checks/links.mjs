// Links of Markdown pages to files of the repository and to headings. Links to other sites are not followed: the check needs no network.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** @typedef {{ line: number, target: string }} Link */

/** A link into the repository: neither a URL nor an absolute path. Groups: what precedes the target, the target, what follows it. */
const link = /(\]\(<?)(?![a-z][a-z0-9+.-]*:|[/<])([^)\s>]+)(>?(?: "[^"]*")?\))/gi;

/** Returns the lines of a page outside of code blocks, with inline code removed from `text`. */
function linesOf(page) {
  let fence;
  return page.split('\n').map((raw) => {
    const [, marker] = /^\s*(```|~~~)/.exec(raw) ?? [];
    const hidden = fence !== undefined || marker !== undefined;
    if (marker !== undefined && (fence === undefined || fence === marker)) fence = fence === undefined ? marker : undefined;
    return { raw: hidden ? '' : raw, text: hidden ? '' : raw.replace(/`[^`]*`/g, '') };
  });
}

/** Returns the anchor of a heading, as GitHub names the first of its text. */
export const slugOf = (heading) =>
  heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '')
    .replaceAll(' ', '-');

/** Returns the anchors of the headings of a page, as GitHub names them. */
export function anchorsOf(page) {
  const counts = new Map();
  const anchors = new Set();
  for (const { raw } of linesOf(page)) {
    const [, heading] = /^#{1,6} (.*?)#*$/.exec(raw) ?? [];
    const named = /<a (?:id|name)="([^"]+)"/.exec(raw)?.[1];
    if (named !== undefined) anchors.add(named);
    if (heading === undefined) continue;
    const slug = slugOf(heading);
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

/** Returns the links of a page that lead into the repository. @returns {Link[]} */
export function linksOf(page) {
  return linesOf(page).flatMap(({ text }, index) => {
    const targets = [...text.matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g), ...text.matchAll(/^\[[^\]]+\]:\s+(\S+)/g)];
    return targets.map(([, target]) => ({ line: index + 1, target })).filter(({ target }) => !/^(?:[a-z][a-z0-9+.-]*:|\/)/i.test(target));
  });
}

/** Returns the page with each link into the repository replaced by what `target` returns. */
export function withLinks(page, target) {
  const hidden = linesOf(page).map(({ raw }) => raw === '');
  return page
    .split('\n')
    .map((line, i) =>
      hidden[i]
        ? line
        : line
            .split(/(`[^`]*`)/)
            .map((part) => (part.startsWith('`') ? part : part.replace(link, (_, before, to, after) => before + target(to) + after)))
            .join(''),
    )
    .join('\n');
}

/** Returns the dead links of all Markdown pages, as lines. `files` are relative to `root`. */
export function deadLinks(root, files) {
  const pages = new Map();
  const pageOf = (path) => {
    if (!pages.has(path)) pages.set(path, readFileSync(join(root, path), 'utf8'));
    return pages.get(path);
  };
  return files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      linksOf(pageOf(file)).flatMap(({ line, target }) => {
        const [path, anchor] = target.split('#');
        const linked = path === '' ? file : normalize(join(dirname(file), decodeURIComponent(path)));
        if (!existsSync(join(root, linked))) return [`${file}:${line}: there is no file ${linked}`];
        if (anchor === undefined || anchor === '' || !linked.endsWith('.md') || anchorsOf(pageOf(linked)).has(anchor)) return [];
        return [`${file}:${line}: ${linked} has no heading #${anchor}`];
      }),
    );
}
