import { isDeepStrictEqual } from 'node:util';
import { chooseCluster } from '@oarlock/cluster/choose';
import { readClusterFile } from '@oarlock/cluster/cluster-file';
import type { PlacementSpec } from '@oarlock/cluster/cluster-schema';
import { plan, type Plan, type Planned } from '@oarlock/cluster/plan';
import { checkPlan } from '@oarlock/cluster/check';
import { sections } from '@oarlock/cluster/sections';
import type { Plugin } from '@oarlock/kernel/plugin';
import { stringify } from 'yaml';

/** Reads the file, loads its plugins, checks each config and the graph. Nothing is started and the machine is not asked. */
export async function validate({ file }: { readonly file: string }): Promise<void> {
  const planned = await plan(await readClusterFile(file));
  checkPlan(planned);
  console.log(`${file} is valid: ${planned.roles.join(', ')} with ${planned.plugins.length} plugins`);
}

/** Prints a file, or without one what `oarlock up` would take, with what it leaves out: another file that means the same. */
export async function print({ file }: { readonly file?: string }): Promise<void> {
  const planned = await plan(file === undefined ? (await chooseCluster()).file : await readClusterFile(file));
  checkPlan(planned);
  process.stdout.write(stringify(filledIn(planned), { lineWidth: 0, aliasDuplicateObjects: false }));
}

/** A cluster file that means what a plan is. */
export function filledIn({ file, roles, facts, plugins }: Plan): object {
  const { spec } = file;
  const { domain, nodePorts } = spec.networking;
  const { podCIDRs, serviceCIDRs } = facts;
  const sectionsHere = sections.filter((section) => section.roles.some((role) => roles.includes(role)));
  const known = {
    roles,
    networking: { podCIDRs, serviceCIDRs, domain, nodePorts },
    server: spec.server,
    ...Object.fromEntries(sectionsHere.map(({ key }) => [key, placementsIn(key, spec[key], plugins)])),
  };
  const settings = plugins
    .filter(({ segments }) => segments[1] === 'settings')
    .map((role) => [role.name, settingsOf(role, spec.settings)] as const);
  const rest = Object.entries(spec).filter(([key]) => !(key in known));
  return {
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name: file.name },
    spec: { ...known, ...Object.fromEntries(rest), settings: { ...spec.settings, ...Object.fromEntries(settings) } },
  };
}

function placementsIn(key: string, written: unknown, plugins: readonly Planned[]): readonly PlacementSpec[] | PlacementSpec | undefined {
  const placed = plugins.flatMap(({ segments, from, plugin, config }) =>
    from !== undefined && segments[1] === key ? [{ ...from.placement, config: withDefaults(plugin, config) }] : [],
  );
  // what is one is written so; a list that is left out may stand for several
  if (Array.isArray(written)) return placed;
  return written === undefined && placed.length > 0 ? placed : placed[0];
}

/** Without what the composition tells the role: that is said elsewhere in the file, or on the command line. */
function settingsOf({ name, plugin, config }: Planned, written: Readonly<Record<string, Readonly<Record<string, unknown>>>>): object {
  const told = Object.keys(config as object).filter((key) => written[name]?.[key] === undefined);
  return Object.fromEntries(Object.entries(withDefaults(plugin, config)).filter(([key]) => !told.includes(key)));
}

/** A config as its plugin takes it, unless the plugin makes something else of it. */
function withDefaults({ config: schema }: Plugin, config: unknown): Record<string, unknown> {
  const { data = config } = schema.safeParse(config);
  const same = isDeepStrictEqual(JSON.parse(JSON.stringify(data)), data) && isDeepStrictEqual(schema.safeParse(data).data, data);
  return (same ? data : config) as Record<string, unknown>;
}
