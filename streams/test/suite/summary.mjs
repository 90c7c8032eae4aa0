// summary.mjs RESULT: count the results of the suite.  Fails if a test fails that is not in a group of EXPECTED: tests of
// forks, which the server does not have.
import { readFileSync } from 'node:fs'

const EXPECTED = /^Fork - /

const tests = JSON.parse(readFileSync(process.argv[2], 'utf8')).testResults.flatMap(file => file.assertionResults)
const count = status => tests.filter(test => test.status === status).length
const failed = tests.filter(test => test.status === 'failed')
const surprising = failed.filter(test => !EXPECTED.test(test.ancestorTitles.at(-1)))
for (const test of surprising) console.log(`not ok ${test.fullName}\n    ${test.failureMessages[0]?.split('\n')[0]}`)
const skipped = tests.length - count('passed') - failed.length
console.log(`suite: ${count('passed')} of ${tests.length - skipped} passed, ${failed.length - surprising.length} failed because there are no forks, ${surprising.length} failed otherwise; ${skipped} are of features that are optional`)
process.exit(surprising.length > 0 || count('passed') === 0 ? 1 : 0)
