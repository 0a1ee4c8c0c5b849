// The table in docs/plugins.md, generated from the key `oarlock` in the package.json of each plugin and from the first sentence of its README.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const begin = '<!-- generated from plugins/*/package.json: begin -->';
const end = '<!-- generated from plugins/*/package.json: end -->';
const platforms = ['any', 'linux', 'darwin', 'win32'];

const isTextList = (value) => Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '');

/** Returns what is wrong with the key `oarlock` of a manifest; undefined if nothing is. */
export function metadataError({ slot, platforms: named, needs, ...others } = {}) {
  if (typeof slot !== 'string' || !/^[a-z-]+\/v\d+$/.test(slot))
    return `oarlock.slot: must be a slot such as "admission/v1", not ${JSON.stringify(slot)}`;
  if (!isTextList(named) || named.length === 0 || named.some((each) => !platforms.includes(each)))
    return `oarlock.platforms: must be a list of ${platforms.join(', ')}, not ${JSON.stringify(named)}`;
  if (!isTextList(needs)) return `oarlock.needs: must be a list of texts, not ${JSON.stringify(needs)}`;
  const [unknown] = Object.keys(others);
  return unknown === undefined ? undefined : `oarlock.${unknown}: unknown key`;
}

/** Returns the first sentence of the first paragraph of a README, on one line. */
export function purposeOf(readme) {
  const paragraph = readme.split(/\n\n+/).find((part) => !part.startsWith('#') && part.trim() !== '') ?? '';
  const text = paragraph
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replaceAll('|', '\\|');
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}

/** Returns the rows of the plugins, by slot and name. @throws Error if a manifest has no valid key `oarlock` */
export function catalogueRows(root) {
  const folder = join(root, 'plugins');
  return readdirSync(folder)
    .filter((name) => existsSync(join(folder, name, 'src', 'plugin.ts')))
    .map((name) => {
      const { oarlock } = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'));
      const error = metadataError(oarlock);
      if (error !== undefined) throw new Error(`plugins/${name}/package.json: ${error}`);
      return { name, ...oarlock, purpose: purposeOf(readFileSync(join(folder, name, 'README.md'), 'utf8')) };
    })
    .sort((a, b) => a.slot.localeCompare(b.slot) || a.name.localeCompare(b.name));
}

export const catalogueTable = (rows) =>
  [
    '| plugin | slot | platforms | needs | purpose |',
    '|---|---|---|---|---|',
    ...rows.map(
      ({ name, slot, platforms: named, needs, purpose }) =>
        `| [${name}](../plugins/${name}/README.md) | ${slot} | ${named.join(', ')} | ${needs.length === 0 ? '-' : needs.join('; ')} | ${purpose} |`,
    ),
  ].join('\n');

/** Writes the table into docs/plugins.md. With `check`, writes nothing. @returns whether the file was current */
export function syncPluginCatalogue(root, { check = false } = {}) {
  const file = join(root, 'docs', 'plugins.md');
  const text = readFileSync(file, 'utf8');
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/plugins.md: the markers "${begin}" and "${end}" are missing`);
  const current = `${text.slice(0, from + begin.length)}\n${catalogueTable(catalogueRows(root))}\n${text.slice(to)}`;
  if (text !== current && !check) writeFileSync(file, current);
  return text === current;
}
