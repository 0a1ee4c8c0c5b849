/** What the joined program has for others in its process. */
export interface Joined {
  main(): Promise<void>;
  /** As `startTestCluster` of @oarlock/testing. */
  readonly startTestCluster: unknown;
  importWith(importer: (specifier: string) => Promise<unknown>): void;
}

/** The program that the build joined into one file, or undefined where there is none. Loaded once. */
export function joined(): Joined | undefined;
