import { parsePolicyRule, policyRulePattern, splitPolicyRules } from '@oarlock/api/rbac/policy-rule-text';
import type { Resource } from '@oarlock/api/resource';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { slotOf, type Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { Slot } from '@oarlock/kernel/plugin';
import { Client, Events, Informers, type Client as ApiClient, type Informer } from '@oarlock/spi/client';
import { CommandError, exitCodes } from '../common/command-error.ts';

const supportedNeeds: readonly Slot<unknown>[] = [Client, Informers, Events];
const reads = ['get', 'list', 'watch'];
/** Every controller may record events, as inside Oarlock. */
export const eventRule: PolicyRule = { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch', 'update'] };

/** Returns the ids of needed slots that an exported program cannot provide. */
export function unsupportedNeeds({ needs }: Plugin): readonly string[] {
  return Object.values(needs)
    .map((need) => slotOf(need).id)
    .filter((id) => !supportedNeeds.some((slot) => slot.id === id));
}

export interface InspectedPlugin {
  readonly instance: object;
  /**
   * RBAC rules of the service account: read access to the resources of the plugin's informers and of `reads`, the rules that the plugin declares, and
   * write access to Events if the plugin records events.
   */
  readonly rules: readonly PolicyRule[];
}

/**
 * Creates a plugin without starting it, and records the informers that the plugin requests. `more` names further resources that the plugin reads,
 * such as `configmaps` or `deployments.apps`.
 * @throws WiringError if the config is invalid; CommandError if the plugin calls the API while it is created
 */
export function inspectPlugin(plugin: Plugin, config: unknown, more: readonly string[]): InspectedPlugin {
  const informed: Resource[] = [];
  const rejectCall = () => {
    throw new CommandError(`${plugin.id} calls the API while it is created: move the call to start or to a request`, exitCodes.usage);
  };
  const informer = (resource: Resource) => {
    informed.push(resource);
    return {
      resource,
      hasSynced: false,
      size: 0,
      addIndexer: () => {},
      addEventHandler: () => () => {},
      get: rejectCall,
      list: rejectCall,
      byIndex: rejectCall,
      whenSynced: rejectCall,
    };
  };
  const client = Object.fromEntries(
    ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deleteCollection', 'raw', 'withSpanContext'].map((method) => [
      method,
      rejectCall,
    ]),
  );
  const host = new PluginHost({ clock: systemClock, log: silentLogger })
    .provide(Client, client as unknown as ApiClient)
    .provide(Informers, { forResource: (resource) => informer(resource) as unknown as Informer<never> })
    .provide(Events, { recorder: () => ({ event: () => {} }) })
    .add({ plugin, config });
  const faults = host.check();
  if (faults.length > 0) throw new CommandError(faults.map(({ message }) => message).join('\n'), exitCodes.usage);
  const value: unknown = host.get(plugin.provides);
  const instance = (Array.isArray(value) ? value[0] : value) as object;
  const { reads: declared = '' } = plugin.declares ?? {};
  const named = [...(typeof declared === 'string' ? declared.split(/[\s,]+/) : []), ...more].filter((each) => each !== '');
  const rules = new Map<string, PolicyRule>();
  for (const { group, resource } of [...informed, ...named.map(groupAndName)])
    rules.set(`${group}/${resource}`, { apiGroups: [group], resources: [resource], verbs: reads });
  const declaredRules = rulesOf(plugin);
  const events = Object.values(plugin.needs).some((need) => slotOf(need).token === Events.token);
  return {
    instance,
    rules: [...rules.values(), ...declaredRules, ...(events ? [eventRule] : [])],
  };
}

/** Returns the rules that a plugin declares: `declares: { rules: 'create | core | configmaps' }`. @throws CommandError if a rule is malformed */
function rulesOf({ id, declares }: Plugin): readonly PolicyRule[] {
  const declared = declares?.['rules'];
  const texts = typeof declared === 'string' ? splitPolicyRules(declared) : [];
  const malformed = texts.find((text) => !policyRulePattern.test(text));
  if (malformed !== undefined)
    throw new CommandError(
      `${id} declares the rule ${JSON.stringify(malformed)}; a rule is \`verbs | groups | resources | names\``,
      exitCodes.usage,
    );
  return texts.map(parsePolicyRule);
}

function groupAndName(text: string): { readonly group: string; readonly resource: string } {
  const dot = text.indexOf('.');
  return dot < 0 ? { group: '', resource: text } : { group: text.slice(dot + 1), resource: text.slice(0, dot) };
}
