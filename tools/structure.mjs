// `npm run structure [-- --list KIND]`: measures language and layout, and compares the figures with what tools/checks/accepted.json allows; exceptions
// to the limits of sizes are in tools/checks/accepted-sizes.json, each with a reason.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { checkLanguage } from './checks/language.mjs';
import { deadLinks } from './checks/links.mjs';
import { checkPages } from './checks/prose.mjs';
import { syncFeatureGateTable } from './checks/feature-gate-table.mjs';
import { syncImportTable } from './checks/import-table.mjs';
import { syncPackageGraph } from './checks/package-graph.mjs';
import { syncPluginCatalogue } from './checks/plugin-catalogue.mjs';
import { checkSizes, limits, sizeErrors } from './checks/sizes.mjs';
import { crossPackageImports, cyclesOf, folderPairs, folderSizes, reachedInternals, sourceGraph } from './checks/source-graph.mjs';
import { root } from './setup.mjs';

const kinds = {
  'banned phrases': ({ language }) =>
    language.text.map(({ file, line, found, instead }) => `${file}:${line}: ${found} (write: ${instead})`),
  'Markdown prose': ({ prose }) => prose.map(({ file, line, found, instead }) => `${file}:${line}: ${found} (write: ${instead})`),
  'dead links': ({ files }) => deadLinks(root, files),
  'banned names': ({ language }) => language.names.map(({ file, line, found, instead }) => `${file}:${line}: ${found} (write: ${instead})`),
  'banned file names': ({ language }) => language.fileNames.map(({ file, instead }) => `${file} (write: ${instead})`),
  'file cycles': ({ graph }) => cyclesOf(graph).map((group) => group.join(' ')),
  'folder pairs': ({ graph }) =>
    folderPairs(graph).map(({ folders, edges }) => `${folders.join(' <-> ')}: ${edges.slice(0, 3).join('; ')}`),
  'relative imports of other packages': ({ files }) => crossPackageImports(root, files),
  'internal files reached from outside': ({ graph }) => reachedInternals(graph),
  'large folders': ({ files }) =>
    folderSizes(files)
      .filter(([, entries]) => entries > limits.folderEntries)
      .map(([folder, entries]) => `${folder}: ${entries} entries`),
  'long files': ({ sizes, exceptions }) => sizeErrors(sizes.longFiles, exceptions['long files']),
  'long functions': ({ sizes, exceptions }) => sizeErrors(sizes.longFunctions, exceptions['long functions']),
  'functions with many parameters': ({ sizes, exceptions }) =>
    sizeErrors(sizes.wideFunctions, exceptions['functions with many parameters']),
};
const usage = `npm run structure [-- --list KIND | --accept]
  --list KIND  prints each finding of one kind: ${Object.keys(kinds).join(', ')}
  --accept     lowers the accepted counts to what is found now (a count never rises) and writes generated tables`;
const { names, '--list': list, '--accept': accept } = argumentsOf(usage, { flags: ['--accept'], values: { '--list': Object.keys(kinds) } });
if (names.length > 0) {
  console.error(usage);
  process.exit(2);
}

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 })
  .split('\n')
  .filter((file) => file !== '' && existsSync(join(root, file)));
const measured = {
  files,
  graph: sourceGraph(root, files),
  language: checkLanguage(root, files),
  prose: checkPages(root, files),
  sizes: checkSizes(root, files),
  exceptions: JSON.parse(readFileSync(join(root, 'tools', 'checks', 'accepted-sizes.json'), 'utf8')),
};
const acceptedFile = join(root, 'tools', 'checks', 'accepted.json');
const accepted = JSON.parse(readFileSync(acceptedFile, 'utf8'));

let failed = 0;
for (const [kind, findingsOf] of Object.entries(kinds)) {
  const findings = findingsOf(measured);
  if (list === kind) for (const finding of findings) console.log(finding);
  const allowed = accepted[kind] ?? 0;
  const over = findings.length > allowed;
  if (over) failed += 1;
  console.log(`${over ? '✖' : '✔'} ${kind}: ${findings.length}${allowed > 0 ? ` (at most ${allowed})` : ''}`);
  if (over && list !== kind) for (const finding of findings.slice(0, allowed === 0 ? 40 : 0)) console.log(`    ${finding}`);
  if (accept && findings.length < allowed) accepted[kind] = findings.length;
}
for (const [what, page, sync] of [
  ['table of imports', 'architecture', syncImportTable],
  ['diagram of packages', 'architecture', syncPackageGraph],
  ['catalog of plugins', 'plugins', syncPluginCatalogue],
  ['table of feature gates', 'feature-gates', syncFeatureGateTable],
]) {
  if (sync(root, { check: !accept }) || accept) continue;
  failed += 1;
  console.log(`✖ the ${what} in docs/${page}.md is not current: npm run structure -- --accept writes it`);
}
for (const [kind, exceptions] of Object.entries(measured.exceptions))
  console.log(`  ${kind}: ${exceptions.flatMap(({ entries }) => entries).length} exceptions with ${exceptions.length} reasons`);
const [largest, entries] = folderSizes(files)[0] ?? ['', 0];
console.log(`  largest folder: ${largest} with ${entries} entries`);
if (accept) writeFileSync(acceptedFile, `${JSON.stringify(accepted, null, 2)}\n`);
if (failed > 0) console.log(`More findings than accepted: npm run structure -- --list '<kind>' shows each.`);
process.exit(failed === 0 ? 0 : 1);
