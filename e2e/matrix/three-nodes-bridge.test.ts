import { rackOf } from './rack.ts';

await rackOf('bridge');
