import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Role } from '@oarlock/spi/role';

/** The reason why a node rejects a pod, or the score of the node. */
export interface NodeExplanation {
  readonly node: string;
  readonly rejectedBy?: string;
  readonly reasons?: readonly string[];
  /** The sum of `scores`. */
  readonly score?: number;
  /** Weighted scores by plugin name. */
  readonly scores?: Readonly<Record<string, number>>;
}

export interface Explanation {
  readonly namespace: string;
  readonly name: string;
  /** The name of the node to which the pod is bound; absent if it is not bound. */
  readonly bound?: string;
  /** The name of the node with the highest score; one of them if several nodes have it. */
  readonly chosen?: string;
  /** The reason why the pod is unschedulable. */
  readonly message?: string;
  readonly nodes: readonly NodeExplanation[];
}

/** Nodes that differ for an explanation. */
export interface NodeChanges {
  /** Nodes that are added, or that replace those with the same names. */
  readonly nodes?: readonly Node[] | undefined;
  /** The names of nodes that are left out, with their pods. */
  readonly removedNodes?: readonly string[] | undefined;
}

export interface Explainer {
  /**
   * Explains pods in order; each pod counts on its chosen node for the pods that follow. Has no side effects, and does not call extenders.
   * @throws ParseError for an invalid quantity in a pod or node
   */
  explain(pods: readonly Pod[], changes?: NodeChanges): readonly Explanation[];
  /** Returns a pod of the cluster by `namespace/name`. */
  podOf(key: string): Pod | undefined;
}

export const explainerSymbol: unique symbol = Symbol.for('oarlock:scheduler:explain') as never;

/** A scheduler role that the explain path finds in the same process. The function returns undefined while this scheduler is not the leader. */
export interface ExplainingRole extends Role {
  readonly [explainerSymbol]: () => Explainer | undefined;
}
export const isExplaining = (role: Role): role is ExplainingRole => explainerSymbol in role;
