import { matrixOf } from './matrix.ts';

await matrixOf('docker');
