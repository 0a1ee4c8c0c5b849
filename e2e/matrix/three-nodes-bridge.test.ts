import { threeNodeSuite } from './three-node-suite.ts';

await threeNodeSuite('bridge');
