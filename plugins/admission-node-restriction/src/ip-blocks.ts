import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { nodes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';

// Nodes that share IP pools write their claims into the same IPBlock objects (docs/adr/0020). These rules restrict each node to its own
// claims.

/** The fields of an IPBlock that contain claims and the node. plugins/network-calico defines the kind. */
interface Block extends KubeObject {
  readonly spec?: {
    readonly cidr?: string;
    readonly pool?: string;
    readonly node?: string;
    readonly claims?: Readonly<Record<string, readonly number[]>>;
    readonly wanted?: Readonly<Record<string, string>>;
  };
}
type IsGone = (name: string) => Promise<boolean>;
const quoted = JSON.stringify;

/**
 * Allows a node to claim unclaimed addresses, to release its own claims, and to take over blocks and claims that belong to no node or to a
 * deleted node.
 */
export async function admitIPBlock(client: Client, node: string, { operation, object, old }: AdmissionRequest): Promise<AdmissionDecision> {
  const isGone: IsGone = async (name) => {
    try {
      await client.get(nodes, { name });
      return false;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return true;
      throw error;
    }
  };
  const before: Block = operation === 'CREATE' ? { spec: { ...(object as Block).spec, node: '', claims: {}, wanted: {} } } : (old ?? {});
  const after: Block = operation === 'DELETE' ? { spec: { ...before.spec, node: '', claims: {}, wanted: {} } } : (object ?? {});
  const wrong = await foreignAllocation(node, {
    before: before.spec ?? {},
    after: after.spec ?? {},
    isGone,
    whole: operation === 'DELETE',
  });
  return wrong === undefined ? allow : deny(`node ${quoted(node)} is not allowed to ${wrong}`);
}

type Spec = NonNullable<Block['spec']>;

/** Returns the change of an IPBlock that affects another node; undefined if there is none. */
async function foreignAllocation(
  node: string,
  { before, after, isGone, whole }: { readonly before: Spec; readonly after: Spec; readonly isGone: IsGone; readonly whole: boolean },
): Promise<string | undefined> {
  if (before.cidr !== after.cidr || before.pool !== after.pool) return 'change the range of an IPBlock';
  const [was = '', is = ''] = [before.node, after.node];
  if (was !== is) {
    if (is !== '' && is !== node) return `give an IPBlock to node ${quoted(is)}`;
    if (was !== '' && was !== node && !(await isGone(was))) return `take an IPBlock of node ${quoted(was)}`;
  }
  const { [node]: held = [], ...othersBefore } = before.claims ?? {};
  const { [node]: mine = [], ...others } = after.claims ?? {};
  for (const [name, claims] of Object.entries(others))
    if (!jsonEqual(claims, othersBefore[name] ?? [])) return `change what node ${quoted(name)} claims`;
  for (const name of Object.keys(othersBefore))
    if (others[name] === undefined && !(await isGone(name))) return `change what node ${quoted(name)} claims`;
  const claimed = new Set(Object.values(others).flat());
  const double = mine.find((ordinal) => claimed.has(ordinal));
  if (double !== undefined) return `claim address ${double}, which another node does`;
  if (whole) return undefined; // requests of unclaimed addresses are meaningless
  for (const ordinal of new Set([...Object.keys(before.wanted ?? {}), ...Object.keys(after.wanted ?? {})])) {
    const [asked, asks] = [before.wanted?.[ordinal], after.wanted?.[ordinal]];
    const lets = asks === undefined && held.includes(Number(ordinal)) && !mine.includes(Number(ordinal));
    if (asked !== asks && asks !== node && asked !== node && !lets) return `request address ${ordinal} for other nodes`;
  }
  return undefined;
}
