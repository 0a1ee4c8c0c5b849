/** The exports of the bundled program. */
export interface Joined {
  main(): Promise<void>;
  /** As `startTestCluster` of @oarlock/testing. */
  readonly startTestCluster: unknown;
  /** Runs the plugin of a worker thread (`PluginThread` of @oarlock/cluster). */
  runPluginThread(): Promise<void>;
  /** Runs a worker of the API server (`WorkerProcess` of @oarlock/cluster). */
  runWorker(): Promise<void>;
  importWith(importer: (specifier: string) => Promise<unknown>): void;
  /** Loads a module of the program by its specifier, such as `@oarlock/console/plugin`. */
  loadModule(specifier: string): Promise<unknown>;
}

/** Returns the program that the build bundled into one file, or undefined if there is none. Loads it once. */
export function joined(): Joined | undefined;
