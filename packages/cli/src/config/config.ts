import { isDeepStrictEqual } from 'node:util';
import { selectDefaultCluster } from '@oarlock/cluster/default-cluster';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { PlacementSpec } from '@oarlock/cluster/cluster-file/cluster-schema';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import type { Plan, PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { checkPlan, planWarnings } from '@oarlock/cluster/composition/check-plan';
import { sections } from '@oarlock/cluster/cluster-file/sections';
import type { Plugin } from '@oarlock/kernel/plugin';
import { formatFacts, printFacts, type OutputFormat } from '../common/output.ts';

/** Reads the cluster file, loads its plugins, and checks each config and the dependency graph. Starts nothing and runs no probes. */
export async function validate({ file, output }: { readonly file: string; readonly output: OutputFormat }): Promise<void> {
  const planned = await createPlan(await readClusterFile(file));
  checkPlan(planned);
  const facts = { file, roles: planned.roles, plugins: planned.plugins.map(({ name }) => name), warnings: planWarnings(planned) };
  await printFacts(output, facts, ({ roles, plugins, warnings }) =>
    [`${file} is valid: roles ${roles.join(', ')}; ${plugins.length} plugins`, ...warnings.map((warning) => `Warning: ${warning}`)].join(
      '\n',
    ),
  );
}

/** Prints a cluster file with all defaults written out. Without a file, prints the composition that `oarlock up` would choose. */
export async function print({ file, output }: { readonly file?: string; readonly output: OutputFormat }): Promise<void> {
  const planned = await createPlan(file === undefined ? (await selectDefaultCluster()).file : await readClusterFile(file));
  checkPlan(planned);
  await printFacts(output, withResolvedDefaults(planned), (facts) => formatFacts('yaml', facts, String));
}

/** Returns a cluster file with all default values written out, from which `oarlock up` creates the same plan. */
export function withResolvedDefaults({ file, roles, facts, plugins }: Plan): object {
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

function placementsIn(
  key: string,
  specified: unknown,
  plugins: readonly PlannedPlugin[],
): readonly PlacementSpec[] | PlacementSpec | undefined {
  const placements = plugins.flatMap(({ segments, origin: from, plugin, config }) =>
    from !== undefined && segments[1] === key ? [{ ...from.placement, config: withDefaults(plugin, config) }] : [],
  );
  // a section with one plugin is not written as a list; an omitted list may stand for several plugins
  if (Array.isArray(specified)) return placements;
  return specified === undefined && placements.length > 0 ? placements : placements[0];
}

/** Returns the settings of a role without the settings that the composition derives from other keys of the file or from the command line. */
function settingsOf(
  { name, plugin, config }: PlannedPlugin,
  specified: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): object {
  const derived = Object.keys(config as object).filter((key) => specified[name]?.[key] === undefined);
  return Object.fromEntries(Object.entries(withDefaults(plugin, config)).filter(([key]) => !derived.includes(key)));
}

/** Returns a config with the plugin's defaults. Returns the config unchanged if the schema transforms it to a value that the schema rejects. */
function withDefaults({ config: schema }: Plugin, config: unknown): Record<string, unknown> {
  const { data = config } = schema.safeParse(config);
  const same = isDeepStrictEqual(JSON.parse(JSON.stringify(data)), data) && isDeepStrictEqual(schema.safeParse(data).data, data);
  return (same ? data : config) as Record<string, unknown>;
}
