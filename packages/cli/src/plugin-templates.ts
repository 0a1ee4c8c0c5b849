import { readdir, readFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The content of `templates/<slot>/template.json`, which describes a package that `oarlock plugins new` creates. */
interface Description {
  /** Packages that the sources import, in addition to @oarlock/kernel, @oarlock/spi and zod. */
  readonly dependencies?: readonly string[];
  /** Packages that only the tests import, in addition to vitest. */
  readonly devDependencies?: readonly string[];
  /** Key under `spec` of a cluster.yaml, and how that section holds plugins; undefined if a cluster.yaml cannot place the plugin. */
  readonly section?: { readonly key: string; readonly many: boolean; readonly first?: boolean };
  /** Example of the plugin's config, as YAML on one line. */
  readonly config: string;
  readonly summary: string;
  /** Rows of the config table in the README. */
  readonly keys: readonly string[];
  readonly needs?: string;
  readonly tests: string;
  /** First steps for the author, if the template has no behavior yet. */
  readonly steps?: readonly string[];
}

/**
 * The files that `oarlock plugins new` creates for one slot. In every text `__ID__` stands for the plugin's id (`authn-ldap`), `__Class__` for
 * the id as a class name (`AuthnLdap`), `__NAME__` for the name alone (`ldap`), and `__Kind__` for the name as a kind (`Ldap`).
 */
export interface PluginTemplate extends Description {
  /** Sources and tests by path. */
  readonly files: ReadonlyMap<string, string>;
}

const camelCase = (name: string) => name.replace(/(?:^|-+)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
/** A kind begins with a letter. */
const kindOf = (name: string) => camelCase(name).replace(/^(?=[0-9])/, 'Kind');

/** Replaces the placeholders in a text of a template. */
export const fillTemplate = (text: string, { id, name }: { readonly id: string; readonly name: string }): string =>
  text
    .replaceAll('__ID__', id)
    .replaceAll('__NAME__', name)
    .replaceAll('__Kind__', kindOf(name))
    .replaceAll('__METRIC__', `oarlock_${id.replaceAll('-', '_')}`)
    .replaceAll('__Class__', camelCase(id));

// `templates` is a sibling of src, dist and bundle
const templates = fileURLToPath(new URL('../templates', import.meta.url));

/** Returns the slots that have a template, as they appear in package names. */
export async function templateSlots(): Promise<readonly string[]> {
  return (await readdir(templates)).toSorted();
}

/** Reads the template of a slot. @throws Error if the slot has no template */
export async function readTemplate(slot: string): Promise<PluginTemplate> {
  const folder = join(templates, slot);
  const read = (path: string) => readFile(join(folder, path), 'utf8');
  const sources = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.ts')).toSorted();
  return {
    ...(JSON.parse(await read('template.json')) as Description),
    files: new Map(await Promise.all(sources.map(async (path) => [path.split(sep).join('/'), await read(path)] as const))),
  };
}

/** The version of Oarlock, and the version ranges of other packages by name. `tools/sync-tsconfig.mjs` writes them. */
export interface Versions {
  readonly oarlock: string;
  readonly [name: string]: string;
}

/** Reads the versions of the packages that a created package depends on. */
export const readVersions = async (): Promise<Versions> =>
  JSON.parse(await readFile(fileURLToPath(new URL('../versions.json', import.meta.url)), 'utf8')) as Versions;
