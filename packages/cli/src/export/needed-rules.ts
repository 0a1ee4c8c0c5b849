import type { Resource } from '@oarlock/api/resource';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { slotOf, type Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { Slot } from '@oarlock/kernel/slot';
import { Client, Events, Informers, type Client as ApiClient, type Informer } from '@oarlock/spi/client';
import { CommandError, exitCodes } from '../exit.ts';

const reach: readonly Slot<unknown>[] = [Client, Informers, Events];
const reads = ['get', 'list', 'watch'];

/** What a plugin needs that a webhook cannot have. */
export function outOfReach({ needs }: Plugin): readonly string[] {
  return Object.values(needs)
    .map((need) => slotOf(need).id)
    .filter((id) => !reach.some((slot) => slot.id === id));
}

export interface Created {
  readonly instance: object;
  /** What it is to be allowed: to read what its informers follow, what it declares as `reads`, and to write Events where it does. */
  readonly rules: readonly PolicyRule[];
}

/**
 * Creates a plugin without starting it, and looks what it takes hold of. `more` are resources that it reads besides, such as `configmaps` or
 * `deployments.apps`. @throws WiringError for a config that it refuses; CommandError when it asks the API before it is started
 */
export function created(plugin: Plugin, config: unknown, more: readonly string[]): Created {
  const followed: Resource[] = [];
  const early = () => {
    throw new CommandError(`${plugin.id} asks the API while it is created: do that in start, or when a request comes`, exitCodes.usage);
  };
  const informer = (resource: Resource) => {
    followed.push(resource);
    return {
      resource,
      synced: false,
      size: 0,
      addIndex: () => {},
      on: () => () => {},
      get: early,
      list: early,
      byIndex: early,
      whenSynced: early,
    };
  };
  const client = Object.fromEntries(
    ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deleteCollection', 'raw', 'causedBy'].map((method) => [method, early]),
  );
  const host = new PluginHost({ clock: systemClock, log: silentLogger })
    .provide(Client, client as unknown as ApiClient)
    .provide(Informers, { of: (resource) => informer(resource) as unknown as Informer<never> })
    .provide(Events, { recorder: () => ({ event: () => {} }) })
    .place({ plugin, config });
  const faults = host.check();
  if (faults.length > 0) throw new CommandError(faults.map(({ message }) => message).join('\n'), exitCodes.usage);
  const held: unknown = host.get(plugin.provides);
  const instance = (Array.isArray(held) ? held[0] : held) as object;
  const { reads: declared = '' } = plugin.declares ?? {};
  const named = [...(typeof declared === 'string' ? declared.split(/[\s,]+/) : []), ...more].filter((each) => each !== '');
  const rules = new Map<string, PolicyRule>();
  for (const { group, resource } of [...followed, ...named.map(groupAndName)])
    rules.set(`${group}/${resource}`, { apiGroups: [group], resources: [resource], verbs: reads });
  const events = Object.values(plugin.needs).some((need) => slotOf(need).token === Events.token);
  return {
    instance,
    rules: [
      ...rules.values(),
      ...(events ? [{ apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch', 'update'] }] : []),
    ],
  };
}

function groupAndName(text: string): { readonly group: string; readonly resource: string } {
  const dot = text.indexOf('.');
  return dot < 0 ? { group: '', resource: text } : { group: text.slice(dot + 1), resource: text.slice(0, dot) };
}
