import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import { Paths } from '@oarlock/spi/paths';
import { Process } from '@oarlock/spi/process';
import { z } from 'zod';

export const pluginHealthUrl = '/oarlock/v1/plugins';
export interface PluginHealthList {
  readonly plugins: readonly PluginHealthView[];
}

/** `GET /oarlock/v1/plugins`: the health of the plugins of other authors in the process of the API server, with the reasons. */
export const pluginHealthPath = Paths.plugin({
  id: 'plugin-health',
  config: z.strictObject({}),
  needs: { process: Process },
  create: ({ process }) => ({
    path: pluginHealthUrl,
    methods: ['GET'],
    async handle() {
      const list: PluginHealthList = { plugins: process.pluginHealth?.() ?? [] };
      return { code: 200, body: list };
    },
  }),
});
