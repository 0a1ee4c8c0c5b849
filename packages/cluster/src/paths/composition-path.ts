import { Paths } from '@oarlock/spi/paths';
import { Process, type PlacedPlugin } from '@oarlock/spi/process';
import { z } from 'zod';

export interface CompositionView {
  /** The plugins of the process of the API server. */
  readonly plugins: readonly PlacedPlugin[];
}

/** `GET /oarlock/v1/composition`: the plugins in the process of the API server, with their slots, needs and configs without secrets. */
export const compositionPath = Paths.plugin({
  id: 'composition',
  config: z.strictObject({}),
  needs: { process: Process },
  create: ({ process }) => ({
    path: '/oarlock/v1/composition',
    methods: ['GET'],
    async handle() {
      const view: CompositionView = { plugins: process.composition?.() ?? [] };
      return { code: 200, body: view };
    },
  }),
});
