/** Finds what documentation pages refer to, and whether it exists in this repository. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../..', import.meta.url));

const repositoryFolders = 'clusters|docs|e2e|examples|packages|plugins|tools';
const pathInText = new RegExp(`^(?:\\./)?((?:${repositoryFolders})/[\\w.@*{},/-]*\\w)/?$`);
const sourceInDiagram = /[\w-]+(?:\/[\w.*-]+)+\.ts\b/g;

const withoutBlocks = (text: string): string => text.replace(/^```[\s\S]*?^```/gm, '');
const inlineCode = (text: string): readonly string[] => [...withoutBlocks(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);

/** Built files, and paths in a data directory. */
const pathsOutsideCheckout = /^(packages\/cli\/bundle\/oarlock\.cjs|plugins\/apiserver(\/.*)?|plugins\/audit-log\/audit\.log)$/;

/** Returns the paths in a page: inline code that looks like a repository path, and source files in Mermaid diagrams, there relative to packages/. */
export function repositoryPaths(text: string): readonly string[] {
  const diagrams = [...text.matchAll(/```mermaid\n([\s\S]*?)```/g)].flatMap(([, diagram = '']) =>
    [...diagram.matchAll(sourceInDiagram)].map(([path]) => `packages/${path}`),
  );
  const inline = inlineCode(text).flatMap((code) => pathInText.exec(code)?.[1] ?? []);
  return [...inline, ...diagrams]
    .flatMap(expandBraces)
    .filter((path) => !/\b(NAME|FILTER)\b/.test(path) && !pathsOutsideCheckout.test(path));
}

/** Expands `a/{b,c}` to `a/b` and `a/c`. */
function expandBraces(path: string): readonly string[] {
  const [, before = '', choices, after = ''] = /^(.*?)\{([^}]*)\}(.*)$/.exec(path) ?? [];
  return choices === undefined ? [path] : choices.split(',').flatMap((choice) => expandBraces(before + choice + after));
}

/** True if a file or folder has this path below `folder`; `*` stands for any part of one name. */
export function pathExists(path: string, folder = root): boolean {
  const [first = '', ...rest] = path.split('/');
  if (!first.includes('*')) {
    const next = join(folder, first);
    return existsSync(next) && (rest.length === 0 || pathExists(rest.join('/'), next));
  }
  const pattern = new RegExp(`^${first.replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
  return readdirSync(folder).some((name) => pattern.test(name) && (rest.length === 0 || pathExists(rest.join('/'), join(folder, name))));
}

/** Returns the anchors that GitHub generates for the headings of a page. */
export function anchorsOf(text: string): readonly string[] {
  return [...withoutBlocks(text).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  );
}

/** Returns the relative links of a Markdown file whose target does not exist: a file, or a heading of a Markdown file. */
export function brokenLinks(file: string): readonly string[] {
  const text = withoutBlocks(readFileSync(file, 'utf8'));
  return [...text.matchAll(/\]\(([^)#\s]*)(?:#([^)]*))?\)/g)].flatMap(([, target = '', anchor]) => {
    if (/^[a-z]+:/.test(target)) return [];
    const linked = target === '' ? file : join(dirname(file), target);
    const exists =
      existsSync(linked) && (anchor === undefined || !linked.endsWith('.md') || anchorsOf(readFileSync(linked, 'utf8')).includes(anchor));
    return exists ? [] : [anchor === undefined ? target : `${target}#${anchor}`];
  });
}

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly scripts: Readonly<Record<string, string>> };

/** Returns the scripts of package.json that a page's shell examples and inline code run, and that do not exist. */
export function missingScripts(text: string): readonly string[] {
  const blocks = [...text.matchAll(/```(?:sh|console)\n([\s\S]*?)```/g)].flatMap(([, block = '']) => block.split('\n'));
  return [...blocks, ...inlineCode(text)].flatMap((line) => {
    const [, script] = /^\s*(?:\$ )?(?:sudo )?npm run ([\w:-]+)/.exec(line) ?? [];
    return script === undefined || script in scripts ? [] : [script];
  });
}

/** True if `@oarlock/PACKAGE/MODULE` is exported by the package of that name. Names without a module and conditions are not checked. */
export function moduleExists(id: string): boolean {
  const [, name = '', ...module] = id.split('/');
  if (module.length === 0) return name === 'source' || existsSync(join(root, 'packages', name)) || existsSync(join(root, 'plugins', name));
  const folder = ['packages', 'plugins'].map((each) => join(root, each, name)).find((each) => existsSync(join(each, 'package.json')));
  if (folder === undefined) return name === 'NAME';
  const { exports = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly exports?: Readonly<Record<string, { readonly '@oarlock/source'?: string } | null>>;
  };
  const wanted = `./${module.join('/')}`;
  return Object.entries(exports).some(([key, target]) => {
    const [before = '', after] = key.split('*');
    if (target?.['@oarlock/source'] === undefined || !wanted.startsWith(before) || !wanted.endsWith(after ?? '')) return false;
    if (after === undefined) return wanted === key;
    const star = wanted.slice(before.length, wanted.length - after.length);
    return existsSync(join(folder, target['@oarlock/source'].replaceAll('*', star)));
  });
}
