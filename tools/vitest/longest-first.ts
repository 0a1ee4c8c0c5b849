import { BaseSequencer, type TestSequencerConstructor, type TestSpecification } from 'vitest/node';

/** Starts the named files first, in this order, so that no long file runs alone at the end; `long` contains parts of their paths. */
export const longestFirst = (long: readonly string[]): TestSequencerConstructor =>
  class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const rank = ({ moduleId }: TestSpecification) => {
        const at = long.findIndex((path) => moduleId.includes(path));
        return at < 0 ? long.length : at;
      };
      return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
    }
  };
