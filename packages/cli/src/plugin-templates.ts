import { readdir, readFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What `templates/<slot>/template.json` tells of a package that `oarlock plugins new` writes. */
interface Description {
  /** Packages that the sources import, besides @oarlock/kernel, @oarlock/spi and zod. */
  readonly dependencies?: readonly string[];
  /** Packages that only the tests import, besides vitest. */
  readonly devDependencies?: readonly string[];
  /** The key under `spec` of a cluster.yaml and how it holds plugins; absent where a cluster.yaml cannot name one. */
  readonly section?: { readonly key: string; readonly many: boolean; readonly first?: boolean };
  /** An example of its config, as YAML on one line. */
  readonly config: string;
  readonly summary: string;
  /** Rows of the README's table of config keys. */
  readonly keys: readonly string[];
  readonly needs?: string;
  readonly tests: string;
  /** What the author does first, where the package does nothing yet. */
  readonly steps?: readonly string[];
}

/**
 * What `oarlock plugins new` writes for one slot. In every text `__ID__` stands for the plugin's id (`authn-ldap`), `__Class__` for the same
 * as a class name (`AuthnLdap`), `__NAME__` for the name alone (`ldap`).
 */
export interface PluginTemplate extends Description {
  /** Sources and tests by path. */
  readonly files: ReadonlyMap<string, string>;
}

// beside the sources, what the compiler makes of them, and the joined file
const templates = fileURLToPath(new URL('../templates', import.meta.url));

/** Slots that there is a template for, as they are written in the names of packages. */
export async function templateSlots(): Promise<readonly string[]> {
  return (await readdir(templates)).toSorted();
}

/** @throws Error when there is none for the slot */
export async function readTemplate(slot: string): Promise<PluginTemplate> {
  const folder = join(templates, slot);
  const read = (path: string) => readFile(join(folder, path), 'utf8');
  const sources = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.ts')).toSorted();
  return {
    ...(JSON.parse(await read('template.json')) as Description),
    files: new Map(await Promise.all(sources.map(async (path) => [path.split(sep).join('/'), await read(path)] as const))),
  };
}
