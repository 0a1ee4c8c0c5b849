import type { Fault, SourcePosition } from './errors.ts';
import { slotOf, type Plugin } from './plugin.ts';
import { slotName } from './slot.ts';

/** What the checks need to know of a placed plugin. */
export interface PlacedNode {
  readonly name: string;
  readonly plugin: Plugin;
  readonly at?: SourcePosition;
  readonly path?: string;
}

const where = ({ at, path }: Pick<PlacedNode, 'at' | 'path'>) => ({ ...(at && { at }), ...(path !== undefined && { path }) });

/** Looks for everything that is wrong with a composition before anything of it runs. */
export function checkGraph(placed: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Fault[] {
  return [...takenSlots(placed, provided), ...takenNames(placed), ...emptySlots(placed, provided), ...cycles(placed)];
}

function* takenSlots(placed: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Generator<Fault> {
  const first = new Map<symbol, string>([...provided.keys()].map((token) => [token, 'the kernel']));
  for (const node of placed) {
    const { provides } = node.plugin;
    if (provides.arity !== 'one') continue;
    const holder = first.get(provides.token);
    if (holder === undefined) first.set(provides.token, node.name);
    else
      yield {
        code: 'SlotTaken',
        ...where(node),
        message: `${node.name}: slot ${provides.id} takes one plugin and has ${holder}`,
        remedy: `remove ${node.name} or ${holder}`,
      };
  }
}

function* takenNames(placed: readonly PlacedNode[]): Generator<Fault> {
  const seen = new Set<string>();
  for (const node of placed) {
    const key = `${node.plugin.provides.id} ${node.name}`;
    if (seen.has(key))
      yield {
        code: 'NameTaken',
        ...where(node),
        message: `${node.name} stands twice in slot ${node.plugin.provides.id}`,
        remedy: 'give one of them another name: { use: ..., name: ... }',
      };
    seen.add(key);
  }
}

function* emptySlots(placed: readonly PlacedNode[], provided: ReadonlyMap<symbol, string>): Generator<Fault> {
  const filled = new Set([...provided.values(), ...placed.map(({ plugin }) => plugin.provides.id)]);
  const versions = new Map<string, string>([...filled].map((id) => [slotName(id), id]));
  for (const node of placed) {
    for (const need of Object.values(node.plugin.needs)) {
      const { id, arity } = slotOf(need);
      if (filled.has(id)) continue;
      const other = versions.get(slotName(id));
      if (other !== undefined) {
        yield {
          code: 'VersionMismatch',
          ...where(node),
          message: `${node.name} needs ${id}, but this cluster has ${other}`,
          remedy: `use a release of ${node.name} that is made for ${other}`,
        };
      } else if (arity === 'one' && !('optional' in need)) {
        yield {
          code: 'SlotEmpty',
          ...where(node),
          message: `${node.name} needs slot ${id}, and nothing fills it`,
          remedy: `name a plugin for ${slotName(id)}`,
        };
      }
    }
  }
}

/** A container answers a factory cycle with a stack overflow, so we look before it leaps. */
function* cycles(placed: readonly PlacedNode[]): Generator<Fault> {
  const byToken = new Map<symbol, PlacedNode[]>();
  for (const node of placed) byToken.set(node.plugin.provides.token, [...(byToken.get(node.plugin.provides.token) ?? []), node]);
  const state = new Map<PlacedNode, 'open' | 'done'>();
  const path: PlacedNode[] = [];
  const found: Fault[] = [];
  const visit = (node: PlacedNode): void => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      const names = path.slice(path.indexOf(node)).map(({ name }) => name);
      found.push({
        code: 'DependencyCycle',
        ...where(node),
        message: [...names, node.name].join(' -> '),
        remedy: 'one of these has to do without the next',
      });
      return;
    }
    state.set(node, 'open');
    path.push(node);
    for (const need of Object.values(node.plugin.needs)) for (const next of byToken.get(slotOf(need).token) ?? []) visit(next);
    path.pop();
    state.set(node, 'done');
  };
  for (const node of placed) visit(node);
  yield* found;
}
