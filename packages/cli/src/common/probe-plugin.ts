import { unavailable, type Availability, type Plugin } from '@oarlock/kernel/plugin';
import { errorText } from '@oarlock/primitives/error-text';

export const probeTimeout = 'its probe did not answer in time';

/** Probes a plugin. A probe without a result in time, or that throws, means that the plugin is not available. */
export async function probePlugin(
  plugin: Plugin,
  { config, limitMs }: { readonly config: unknown; readonly limitMs: number },
): Promise<Availability> {
  if (plugin.probe === undefined) return { available: true };
  const parsed = plugin.config.safeParse(config);
  if (!parsed.success) {
    const keys = parsed.error.issues.map(({ path }) => path.map(String).join('.')).join(', ');
    return unavailable(`cannot be probed without a config: ${keys}`);
  }
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<Availability>((resolve) => {
    timer = setTimeout(() => resolve(unavailable(probeTimeout)), limitMs);
  });
  try {
    return await Promise.race([plugin.probe(parsed.data), limit]);
  } catch (error) {
    return unavailable(`its probe failed: ${errorText(error)}`);
  } finally {
    clearTimeout(timer);
  }
}
