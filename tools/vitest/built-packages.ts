import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Plugin } from 'vite';

/** Built files of packages and plugins: Node loads them, vitest neither transforms nor evaluates them. */
export const builtFiles = /\/(?:packages|plugins)\/[^/]+\/dist\//;

const sourceFile = /^(.*\/(?:packages|plugins)\/[^/]+)\/src\/(.*)\.ts$/;

/**
 * Replaces `../src/x.ts` in a test by the built `../dist/x.js`, so that a test and the packages it uses share one instance of each module. Plugins of
 * examples are not built and stay as they are.
 */
export const builtPackages: Plugin = {
  name: 'built-packages',
  enforce: 'pre',
  resolveId(source, importer) {
    if (importer === undefined || !source.startsWith('.')) return undefined;
    const [, folder, path] = sourceFile.exec(resolve(dirname(importer), source)) ?? [];
    const built = `${folder}/dist/${path}.js`;
    return path !== undefined && existsSync(built) ? built : undefined;
  },
};
