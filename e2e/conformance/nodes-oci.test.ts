import { nodeBehavioursOn } from './node-suite.ts';

await nodeBehavioursOn('oci');
