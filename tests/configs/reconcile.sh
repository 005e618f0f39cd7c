#!/bin/sh
echo '{"resting":0,"filled":0,"unknown":0}'
