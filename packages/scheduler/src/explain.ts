import type { Pod } from '@oarlock/api/types/core-v1';
import type { Role } from '@oarlock/spi/role';

/** What a node is to a pod. */
export interface Verdict {
  readonly node: string;
  readonly refusedBy?: string;
  readonly reasons?: readonly string[];
  /** The sum, and each plugin's share in it. */
  readonly score?: number;
  readonly scores?: Readonly<Record<string, number>>;
}

export interface Explanation {
  readonly namespace: string;
  readonly name: string;
  /** Where it is bound already. */
  readonly bound?: string;
  /** The best node, or one of several that are equally good. */
  readonly chosen?: string;
  /** Why it would not be scheduled. */
  readonly message?: string;
  readonly nodes: readonly Verdict[];
}

export interface Explainer {
  /** Each pod in turn, those before it counted where they would go. Changes nothing. Extenders are not asked. */
  explain(pods: readonly Pod[]): readonly Explanation[];
  /** A pod of the cluster, by namespace and name. */
  podOf(key: string): Pod | undefined;
}

export const explaining: unique symbol = Symbol.for('oarlock:scheduler:explain') as never;

/** A scheduler role as the explain path finds it in its process; undefined while it does not lead. */
export interface ExplainingRole extends Role {
  readonly [explaining]: () => Explainer | undefined;
}
export const isExplaining = (role: Role): role is ExplainingRole => explaining in role;
