// summary.mjs RESULT NAME: count the results of the suite.  Fails if a test fails.
import { readFileSync } from 'node:fs'

const [, , result, name] = process.argv
const tests = JSON.parse(readFileSync(result, 'utf8')).testResults.flatMap(file => file.assertionResults)
const count = status => tests.filter(test => test.status === status).length
const failed = tests.filter(test => test.status === 'failed')
for (const test of failed) console.log(`not ok ${test.fullName}\n    ${test.failureMessages[0]?.split('\n')[0]}`)
const skipped = tests.length - count('passed') - failed.length
console.log(`suite, ${name}: ${count('passed')} of ${tests.length - skipped} passed; ${skipped} are of features that are optional`)
process.exit(failed.length > 0 || count('passed') === 0 ? 1 : 0)
