import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkPackage, Package } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports?: Readonly<Record<string, { readonly types?: string } | null>>;
}
const manifestOf = async (folder: string) => JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest;

/** Returns the findings of publint about the folder of a package, as lines. */
export async function lintPackage(folder: string): Promise<readonly string[]> {
  const { messages, pkg } = await publint({ pkgDir: folder, pack: false, strict: true });
  return messages.map((message) => `${String(pkg['name'])}: ${formatMessage(message, pkg, { color: false }) ?? message.code}`);
}

/** Returns the specifiers that a package exports, without its name, by the declarations that its patterns match. */
function entrypointsOf({ exports = {} }: Manifest, files: readonly string[]): readonly string[] {
  const blocked = Object.entries(exports).flatMap(([key, target]) => (target === null ? [key.slice(0, -1)] : []));
  const found = Object.entries(exports).flatMap(([key, target]) => {
    if (target?.types === undefined) return [];
    const [first = '', ...rest] = target.types.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
    const pattern = new RegExp(`^${first}${rest.map((part, index) => `${index === 0 ? '(.+)' : String.raw`\1`}${part}`).join('')}$`);
    return files.flatMap((file) => {
      const match = pattern.exec(`./${file}`);
      return match === null ? [] : [key.replace('*', match[1] ?? '')];
    });
  });
  return [...new Set(found)].filter((entrypoint) => !blocked.some((prefix) => entrypoint.startsWith(prefix)));
}

/** Findings that follow from packages that have ES modules and `exports` only: they are documented in docs/publishing.md. */
const accepted: ReadonlySet<string> = new Set(['NoResolution node10', 'CJSResolvesToESM node16-cjs']);

/** Returns at most `count` members of a list, from its beginning to its end at equal distances. */
const sampleOf = <T>(all: readonly T[], count: number): readonly T[] =>
  all.length <= count ? all : Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)] as T);

/**
 * Returns the findings of arethetypeswrong about modules that a package exports, as lines, and the number of the modules: 0 for a package of commands,
 * which exports no types.
 * @param maxModules of a package with more, this many are checked: all match the same patterns of its manifest
 */
export async function checkTypes(
  folder: string,
  maxModules = Number.POSITIVE_INFINITY,
): Promise<{ readonly modules: number; readonly findings: readonly string[] }> {
  const manifest = await manifestOf(folder);
  const { name, version } = manifest;
  const paths = (await readdir(folder, { recursive: true })).filter((path) => /\.(d\.ts|js|json)$/.test(path));
  const contents = await Promise.all(
    paths.map(async (path) => [`/node_modules/${name}/${path}`, await readFile(join(folder, path), 'utf8')] as const),
  );
  const entrypoints = sampleOf(entrypointsOf(manifest, paths), maxModules);
  if (entrypoints.length === 0) return { modules: 0, findings: [] };
  const result = await checkPackage(new Package(Object.fromEntries(contents), name, version), { entrypoints: [...entrypoints] });
  if (result.types === false) return { modules: 0, findings: [`${name} has no types`] };
  const findings = result.problems.map((problem) => {
    const resolution = 'resolutionKind' in problem ? problem.resolutionKind : 'resolutionOption' in problem ? problem.resolutionOption : '';
    const where = 'entrypoint' in problem ? problem.entrypoint : 'fileName' in problem ? problem.fileName : '';
    return { code: `${problem.kind} ${resolution}`, text: `${name}: ${problem.kind} ${resolution} ${where}` };
  });
  return { modules: entrypoints.length, findings: findings.filter(({ code }) => !accepted.has(code)).map(({ text }) => text) };
}
