import { unitTests } from './vitest.config.ts';

/** Unit and contract tests of the built packages, as `npm test` runs them after a build. */
export default unitTests(true);
