import { runtimeSuite } from './runtime-suite.ts';

await runtimeSuite('process');
