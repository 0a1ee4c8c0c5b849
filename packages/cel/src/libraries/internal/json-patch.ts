import { fn, traversal, type Library } from '../library.ts';

export const jsonPatches: Library = {
  name: 'jsonpatch',
  functions: [
    fn('jsonpatch.escapeKey(string): string', (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1'), {
      cost: (size) => Math.max(1, traversal(size)),
    }),
  ],
};
