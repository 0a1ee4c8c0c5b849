import { nodeBehavioursOn } from './node-suite.ts';

await nodeBehavioursOn('oci-without-runc');
await nodeBehavioursOn('oci-mapped-users');
await nodeBehavioursOn('oci-one-user');
