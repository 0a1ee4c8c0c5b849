import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the ready compositions: beside `bundle` in the published package, otherwise at the root of the checkout. */
const folder = ['../clusters', '../../../clusters', '../../../../clusters']
  .map((path) => fileURLToPath(new URL(path, import.meta.url)))
  .find((path) => existsSync(join(path, 'embedded.yaml')));

const extension = '.yaml';

/** Returns the names of the cluster files that come with Oarlock, sorted. */
export const readyCompositions = (): readonly string[] =>
  folder === undefined
    ? []
    : readdirSync(folder)
        .filter((name) => name.endsWith(extension))
        .map((name) => name.slice(0, -extension.length))
        .sort();

/** Returns the path of a cluster file that comes with Oarlock, such as `embedded`; undefined if there is none with this name. */
export function readyComposition(name: string): string | undefined {
  return readyCompositions().includes(name) ? join(folder ?? '', `${name}${extension}`) : undefined;
}
