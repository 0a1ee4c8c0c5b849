import { networkBehavioursOn } from './network-suite.ts';

await networkBehavioursOn('docker');
