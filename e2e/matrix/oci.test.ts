import { runtimeSuite } from './runtime-suite.ts';

await runtimeSuite('oci');
