/** How a container is separated from the node. `root` and `user` name the rights with which its namespaces are created. */
export type IsolationMode = 'root' | 'user';

/** What the probe found: the mode in which pods are isolated, or why they cannot be and whether their volumes are mounted nevertheless. */
export type Isolation =
  | { readonly mode: IsolationMode }
  | { readonly mode: 'none'; readonly reason: string; readonly mountsVolumes: boolean };

/** How a running container was isolated, for `exec`. */
export interface ContainerIsolation {
  readonly mode: IsolationMode;
  /** True if it has a process namespace of its own. */
  readonly processes: boolean;
  /** Covered directories, and what is visible in them. */
  readonly hidden: readonly string[];
  readonly visible: readonly string[];
  /** Where the container finds its volumes, in the order of its mounts. */
  readonly volumePaths: readonly string[];
}
