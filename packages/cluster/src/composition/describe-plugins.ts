import { slotOf } from '@oarlock/kernel/plugin';
import { redacted, redactSecrets } from '@oarlock/primitives/redact-secrets';
import type { PlacedPlugin } from '@oarlock/spi/process';
import type { PlannedPlugin } from './plan.ts';

/** Fields whose text is a secret, whatever its form. Names of files, such as `tokenFile`, remain. */
const secretField = /(?:password|passphrase|secret|token|credential|key)s?$/i;
const maxDepth = 8;
const maxEntries = 200;
const maxText = 1000;

/** Returns a config without secrets, and without values that JSON does not have. Its size is bounded. */
export function redactConfig(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return redactSecrets(value).slice(0, maxText);
  if (typeof value === 'boolean' || typeof value === 'number' || value === null) return value;
  if (typeof value !== 'object' || depth === maxDepth) return undefined;
  if (Array.isArray(value)) return value.slice(0, maxEntries).map((item: unknown) => redactConfig(item, depth + 1) ?? null);
  const entries = Object.entries(value).slice(0, maxEntries) as readonly (readonly [string, unknown])[];
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, secretField.test(name) && !isPlain(inner) ? redacted : redactConfig(inner, depth + 1)]),
  );
}

const isPlain = (value: unknown): boolean =>
  typeof value === 'boolean' || typeof value === 'number' || value === undefined || value === null;

/** Returns the plugins of a plan for readers. */
export function describePlugins(plugins: readonly PlannedPlugin[]): readonly PlacedPlugin[] {
  return plugins.map(({ plugin, name, config }) => {
    const { id, provides, needs } = plugin;
    const parsed = plugin.config.safeParse(config);
    return {
      ...{ name, id },
      slot: provides.id,
      needs: Object.values(needs).map((need) => slotOf(need).id),
      config: redactConfig(parsed.success ? parsed.data : config) ?? {},
    };
  });
}
