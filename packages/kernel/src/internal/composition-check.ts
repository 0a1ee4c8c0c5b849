import type { Fault, SourcePosition } from '../errors.ts';
import { slotOf, type Plugin } from '../plugin.ts';
import { slotName } from '../slot.ts';

/** The properties of a plugin in a composition that the checks read. */
export interface PlacedNode {
  readonly name: string;
  readonly plugin: Plugin;
  readonly at?: SourcePosition;
  readonly path?: string;
}

const positionOf = ({ at, path }: Pick<PlacedNode, 'at' | 'path'>) => ({ ...(at && { at }), ...(path !== undefined && { path }) });

/** Returns every fault that can be found without creating a plugin: slots with two plugins, duplicate names, empty slots, dependency cycles. */
export function checkComposition(nodes: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Fault[] {
  return [...takenSlots(nodes, provided), ...duplicateNames(nodes), ...emptySlots(nodes, provided), ...dependencyCycles(nodes)];
}

function* takenSlots(nodes: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Generator<Fault> {
  const first = new Map<symbol, string>([...provided.keys()].map((token) => [token, 'the composition itself']));
  for (const node of nodes) {
    const { provides } = node.plugin;
    if (provides.arity !== 'one') continue;
    const holder = first.get(provides.token);
    if (holder === undefined) first.set(provides.token, node.name);
    else
      yield {
        code: 'SlotTaken',
        ...positionOf(node),
        message: `${node.name}: slot ${provides.id} accepts one plugin and is filled by ${holder}`,
        remedy: `remove ${node.name} or ${holder}`,
      };
  }
}

function* duplicateNames(nodes: readonly PlacedNode[]): Generator<Fault> {
  const seen = new Set<string>();
  for (const node of nodes) {
    const key = `${node.plugin.provides.id} ${node.name}`;
    if (seen.has(key))
      yield {
        code: 'NameTaken',
        ...positionOf(node),
        message: `${node.name} is used twice in slot ${node.plugin.provides.id}`,
        remedy: 'give one of them another name: { use: ..., name: ... }',
      };
    seen.add(key);
  }
}

function* emptySlots(nodes: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Generator<Fault> {
  const filled = new Set([...provided.values(), ...nodes.map(({ plugin }) => plugin.provides.id)]);
  const versions = new Map<string, string>([...filled].map((id) => [slotName(id), id]));
  for (const node of nodes) {
    for (const need of Object.values(node.plugin.needs)) {
      const { id, arity } = slotOf(need);
      if (filled.has(id)) continue;
      const other = versions.get(slotName(id));
      if (other !== undefined) {
        yield {
          code: 'VersionMismatch',
          ...positionOf(node),
          message: `${node.name} needs ${id}, but this cluster has ${other}`,
          remedy: `use a release of ${node.name} for ${other}`,
        };
      } else if (arity === 'one' && !('optional' in need)) {
        yield {
          code: 'SlotEmpty',
          ...positionOf(node),
          message: `${node.name} needs slot ${id}, which no plugin fills`,
          remedy: `name a plugin for ${slotName(id)}`,
        };
      }
    }
  }
}

/**
 * Yields a fault for each dependency cycle. Run this before the container resolves a token: the container recurses into a cycle of factories
 * until the stack overflows.
 */
function* dependencyCycles(nodes: readonly PlacedNode[]): Generator<Fault> {
  const byToken = new Map<symbol, PlacedNode[]>();
  for (const node of nodes) byToken.set(node.plugin.provides.token, [...(byToken.get(node.plugin.provides.token) ?? []), node]);
  const state = new Map<PlacedNode, 'open' | 'done'>();
  const path: PlacedNode[] = [];
  const found: Fault[] = [];
  const visit = (node: PlacedNode): void => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      const names = path.slice(path.indexOf(node)).map(({ name }) => name);
      found.push({
        code: 'DependencyCycle',
        ...positionOf(node),
        message: [...names, node.name].join(' -> '),
        remedy: 'break the cycle: one of these plugins must not need the next one',
      });
      return;
    }
    state.set(node, 'open');
    path.push(node);
    for (const need of Object.values(node.plugin.needs)) for (const next of byToken.get(slotOf(need).token) ?? []) visit(next);
    path.pop();
    state.set(node, 'done');
  };
  for (const node of nodes) visit(node);
  yield* found;
}
