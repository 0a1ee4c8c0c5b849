// `npm run api-report [-- --accept]`: compares the public API of kernel and spi with the reports in the repository, or writes them.
import { argumentsOf } from './arguments.mjs';
import { syncApiReports } from './checks/api-report.mjs';
import { root } from './setup.mjs';

const usage = `npm run api-report [-- --accept]
  --accept  writes packages/kernel/api-report.md and packages/spi/api-report.md; without it they are compared`;
const { '--accept': accept } = argumentsOf(usage, { flags: ['--accept'] });
const outdated = syncApiReports(root, { check: !accept });
for (const folder of outdated)
  console.log(accept ? `wrote ${folder}/api-report.md` : `${folder}/api-report.md is not current: run npm run api-report -- --accept`);
process.exit(accept || outdated.length === 0 ? 0 : 1);
