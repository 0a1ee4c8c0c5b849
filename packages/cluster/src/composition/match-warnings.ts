import { customResourceDefinitions } from '@oarlock/api/resources';
import { apiVersionOf } from '@oarlock/api/resource';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import type { Plugin, Slot } from '@oarlock/kernel/plugin';
import { closestWord } from '@oarlock/kernel/known-keys';
import { Admission, type AdmissionRule } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import type { Composition } from './compose.ts';

const operations = ['CREATE', 'UPDATE', 'DELETE', 'CONNECT', '*'];

interface ApiGroup {
  readonly versions?: readonly { readonly groupVersion: string }[];
}
interface ResourceList {
  readonly resources?: readonly { readonly name: string }[];
}

/** Returns a warning for each resource or operation in the rules of other authors' admission plugins that no request has. */
export async function matchWarnings({ plan, host }: Pick<Composition, 'plan' | 'host'>): Promise<readonly string[]> {
  if (!plan.roles.includes('apiserver')) return [];
  const foreign = ofOtherAuthors(plan, Admission, host.get(Admission));
  return unmatchedRules(
    host.get(Client),
    foreign.map(({ name, instance: { matches } }) => ({ name, matches })),
  );
}

/**
 * Returns a warning for each controller of another author that waits for a kind which the API server does not serve. Controllers that may write
 * definitions are not checked: they install the definition themselves.
 */
export async function kindWarnings({ plan, host }: Pick<Composition, 'plan' | 'host'>): Promise<readonly string[]> {
  if (!plan.roles.includes('controllers')) return [];
  const discovery = new ResourceDiscovery(host.get(Client));
  const foreign = ofOtherAuthors(plan, Controllers, host.get(Controllers)).filter(
    ({ declares }) => !String(declares?.['rules'] ?? '').includes(customResourceDefinitions.resource),
  );
  const warnings = await Promise.all(
    foreign.map(async ({ name, instance: { watches } }) => {
      const missing = await discovery.missing(new Set(watches.map(({ informer }) => informer.resource)));
      return missing.map(
        (resource) =>
          `${name} waits until the API server serves ${resource.resource} of ${apiVersionOf(resource)}: apply their CustomResourceDefinition, or correct the resource`,
      );
    }),
  );
  return warnings.flat();
}

/** Returns the plugins of a chain that have limits, with their names. */
function ofOtherAuthors<T>(
  { plugins }: Composition['plan'],
  slot: Slot<unknown>,
  instances: readonly T[],
): readonly { readonly name: string; readonly instance: T; readonly declares: Plugin['declares'] }[] {
  const planned = plugins.filter(({ plugin }) => plugin.provides.token === slot.token);
  return instances.flatMap((instance, index) => {
    const { name, limits, plugin } = planned[index] ?? {};
    return name === undefined || limits === undefined ? [] : [{ name, instance, declares: plugin?.declares }];
  });
}

/** Returns the warnings of `ruleWarnings` for the rules of plugins and the resources of an API server. */
export async function unmatchedRules(
  client: Client,
  plugins: readonly { readonly name: string; readonly matches: readonly AdmissionRule[] }[],
): Promise<readonly string[]> {
  if (plugins.length === 0) return [];
  const served = await servedResources(client);
  return plugins.flatMap(({ name, matches }) => ruleWarnings(name, matches, served));
}

/** Returns a warning for each resource and operation in the rules of a plugin that no request has. `served` are names such as `deployments.apps/scale`. */
export function ruleWarnings(name: string, rules: readonly AdmissionRule[], served: ReadonlySet<string>): readonly string[] {
  return rules.flatMap((rule, index) => [
    ...rule.resources
      .filter((resource) => resource !== '*' && !served.has(resource))
      .map(
        (resource) =>
          `${name}: matches[${index}].resources: the API server does not serve ${JSON.stringify(resource)}${resourceHint(resource, served)}`,
      ),
    ...rule.operations
      .filter((operation) => !operations.includes(operation))
      .map((operation) => {
        const closest = closestWord((operation as string).toUpperCase(), operations);
        const hint = closest === undefined ? `operations are ${operations.join(', ')}` : `did you mean ${closest}?`;
        return `${name}: matches[${index}].operations: unknown operation ${JSON.stringify(operation)}: ${hint}`;
      }),
  ]);
}

function resourceHint(resource: string, served: ReadonlySet<string>): string {
  const [path = '', subresource] = resource.split('/');
  const plural = path.split('.')[0] ?? '';
  const suffix = subresource === undefined ? '' : `/${subresource}`;
  const inOtherGroup = [...served].filter(
    (name) => name.startsWith(`${plural}.`) && name.endsWith(suffix) && name.includes('/') === (suffix !== ''),
  );
  const closest = inOtherGroup.length > 0 ? inOtherGroup.join(' or ') : closestWord(resource.toLowerCase(), [...served]);
  return closest === undefined ? ': the rule matches nothing until a CustomResourceDefinition defines it' : `: did you mean ${closest}?`;
}

/** Returns the resources and subresources of all groups, such as `pods`, `deployments.apps` and `deployments.apps/scale`. */
async function servedResources(client: Client): Promise<ReadonlySet<string>> {
  const { groups = [] } = (await client.raw('GET', '/apis')) as { readonly groups?: readonly ApiGroup[] };
  const paths = ['/api/v1', ...groups.flatMap(({ versions = [] }) => versions.map(({ groupVersion }) => `/apis/${groupVersion}`))];
  const lists = await Promise.all(
    paths.map(async (path) => {
      const { resources = [] } = (await client.raw('GET', path)) as ResourceList;
      return resources.map(({ name }) => groupName(name, path));
    }),
  );
  return new Set(lists.flat());
}

/** `deployments/scale` of `/apis/apps/v1` is `deployments.apps/scale`. */
function groupName(name: string, path: string): string {
  const [, , group = ''] = path.split('/');
  if (!path.startsWith('/apis/')) return name;
  const [plural = '', ...subresource] = name.split('/');
  return [`${plural}.${group}`, ...subresource].join('/');
}
