export type Cleanup = () => Promise<void> | void;

/** Runs and removes all cleanups, the last one first. @throws the first error, after all have run */
export async function runCleanups(cleanups: Cleanup[]): Promise<void> {
  const errors: unknown[] = [];
  for (const cleanup of cleanups.splice(0).reverse()) {
    try {
      await cleanup();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}
