import { failure } from '@oarlock/api/status';
import type { Plugin } from '@oarlock/kernel/plugin';
import { Admission, type AdmissionPlugin } from '@oarlock/spi/admission';
import type { FakeClock } from './fake-clock.ts';
import type { MemoryApi } from './memory-api.ts';
import { openPlugin, type OpenPluginOptions } from './internal/open-plugin.ts';

export interface OpenAdmission {
  readonly plugin: AdmissionPlugin;
  readonly api: MemoryApi;
  readonly clock: FakeClock;
  /** Returns the number of writes, as the fixture of the admission contract requires. */
  writes(): number;
  breakDown(): void;
  dispose(): Promise<void>;
}

export type OpenAdmissionOptions = OpenPluginOptions;

/** Starts an admission plugin over a memory API, with synced informers. */
export async function openAdmission(plugin: Plugin, options: OpenAdmissionOptions = {}): Promise<OpenAdmission> {
  const { instance, api, clock, dispose } = await openPlugin(Admission, plugin, options);
  return {
    plugin: instance,
    api,
    clock,
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    breakDown: () => {
      for (const verb of ['get', 'list'] as const)
        api.failNext({ verb }, failure('ServiceUnavailable', 'the store is unavailable'), 10_000);
    },
    dispose,
  };
}
