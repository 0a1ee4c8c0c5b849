import type { Pod } from '@oarlock/api/types/core-v1';
import type { Role } from '@oarlock/spi/role';

/** Why a node rejects a pod, or how it scores. */
export interface NodeExplanation {
  readonly node: string;
  readonly rejectedBy?: string;
  readonly reasons?: readonly string[];
  /** The sum of `scores`. */
  readonly score?: number;
  /** Weighted scores by plugin. */
  readonly scores?: Readonly<Record<string, number>>;
}

export interface Explanation {
  readonly namespace: string;
  readonly name: string;
  /** The node of a pod that is bound. */
  readonly bound?: string;
  /** The node with the highest score, or one of several. */
  readonly chosen?: string;
  /** Why the pod is unschedulable. */
  readonly message?: string;
  readonly nodes: readonly NodeExplanation[];
}

export interface Explainer {
  /** Explains pods in order; each pod counts on its chosen node for the next ones. Has no side effects. Does not call extenders. */
  explain(pods: readonly Pod[]): readonly Explanation[];
  /** Returns a pod of the cluster by `namespace/name`. */
  podOf(key: string): Pod | undefined;
}

export const explainerSymbol: unique symbol = Symbol.for('oarlock:scheduler:explain') as never;

/** A scheduler role that the explain path finds in its process. The function returns undefined while the role is not the leader. */
export interface ExplainingRole extends Role {
  readonly [explainerSymbol]: () => Explainer | undefined;
}
export const isExplaining = (role: Role): role is ExplainingRole => explainerSymbol in role;
